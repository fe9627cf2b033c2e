#!/bin/bash
seq 1 4 >numbers.txt
