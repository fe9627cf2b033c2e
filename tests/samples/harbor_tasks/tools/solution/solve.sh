#!/bin/bash
printf done >done.txt
