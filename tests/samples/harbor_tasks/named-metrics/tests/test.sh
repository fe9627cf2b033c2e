#!/bin/bash
complete=0 ordered=0
[ "$(sort numbers.txt 2>/dev/null | tr '\n' ' ')" = "1 2 3 4 " ] && complete=1
[ "$(cat numbers.txt 2>/dev/null | tr '\n' ' ')" = "1 2 3 4 " ] && ordered=1
printf '{"reward": %s, "complete": %s}\n' $ordered $complete >/logs/verifier/reward.json
