python3 - <<'PYTHON'
import json

with open("/home/agent/series.json") as file:
    seen = json.load(file)
months = len(seen)
# The trend is the mean change over whole years; each month of the year has its own mean around it.
slope = (sum(seen[-12:]) - sum(seen[:12])) / 12 / (months - 12)
level = [value - slope * month for month, value in enumerate(seen)]
season = [sum(level[start::12]) / len(level[start::12]) for start in range(12)]
with open("/home/agent/forecast.json", "w") as file:
    json.dump([season[month % 12] + slope * month for month in range(months, months + 24)], file)
PYTHON
/score/score
