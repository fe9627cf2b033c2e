#!/bin/bash
echo alpha >>log.txt
