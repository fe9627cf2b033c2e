#!/bin/bash
status=failed reward=0
[ "$(cat light.txt 2>/dev/null)" = "green" ] && status=passed reward=1
passed=$reward failed=$((1 - reward))
cat >/logs/verifier/ctrf.json <<END
{"results": {"tool": {"name": "test.sh"},
 "summary": {"tests": 1, "passed": $passed, "failed": $failed, "skipped": 0, "pending": 0, "other": 0},
 "tests": [{"name": "light", "status": "$status", "duration": 1}]}}
END
echo $reward >/logs/verifier/reward.txt
