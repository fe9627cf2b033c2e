#!/bin/bash
echo $((19 + 23)) >sum.txt
