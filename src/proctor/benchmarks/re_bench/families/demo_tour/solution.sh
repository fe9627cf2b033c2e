cat >/home/agent/solve.py <<'PYTHON'
import json
import math
import sys


def tour(cities):
    far = [[math.dist(a, b) for b in cities] for a in cities]
    left = set(range(1, len(cities)))
    order = [0]
    while left:
        order.append(min(left, key=far[order[-1]].__getitem__))
        left.remove(order[-1])
    better = True
    while better:
        better = False
        for i in range(len(order) - 1):
            for j in range(i + 2, len(order) - (i == 0)):
                a, b, c, d = order[i], order[i + 1], order[j], order[(j + 1) % len(order)]
                if far[a][c] + far[b][d] < far[a][b] + far[c][d] - 1e-12:
                    order[i + 1 : j + 1] = order[i + 1 : j + 1][::-1]
                    better = True
    return order


print(json.dumps([tour(cities) for cities in json.load(sys.stdin)]))
PYTHON
/score/score
