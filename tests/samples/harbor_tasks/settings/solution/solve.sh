#!/bin/bash
printf '%s %s' "$COLOUR" "$WORD" >it.txt
whoami >who.txt
