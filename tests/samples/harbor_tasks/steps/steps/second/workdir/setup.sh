#!/bin/bash
echo beta >next.txt
