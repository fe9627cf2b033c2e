#!/bin/bash
echo green >light.txt
