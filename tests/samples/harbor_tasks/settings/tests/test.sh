#!/bin/bash
reward=0
[ "$(cat it.txt 2>/dev/null)" = "blue $WANTED" ] && [ "$(cat who.txt)" = worker ] && [ "$(whoami)" = worker ] && reward=1
echo $reward >/logs/verifier/reward.txt
