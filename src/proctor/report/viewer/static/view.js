"use strict";
// Search while typing, live updates of a running run, and keyboard shortcuts.
(() => {
  const parts = ["live-head", "live", "live-steps"];
  let latest = 0;

  // Replace the live parts of this page. Open details stay open, and the scroll position stays.
  async function update(url, only = parts) {
    const request = ++latest;
    const response = await fetch(url, { headers: { Accept: "text/html" } });
    if (!response.ok) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    if (request !== latest) return;
    for (const id of only) {
      const old = document.getElementById(id), fresh = page.getElementById(id);
      if (!old || !fresh) continue;
      const opened = new Map([...old.querySelectorAll("details")].map((item, i) => [detailsKey(item, i), item.open]));
      [...fresh.querySelectorAll("details")].forEach((item, i) => {
        const known = opened.get(detailsKey(item, i));
        if (known !== undefined) item.open = known;
      });
      old.replaceWith(document.adoptNode(fresh));
    }
    watchMore();
    mark(-1);
  }
  // What is far down is loaded when it comes near the screen, and put in the place of its placeholder.
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) load(entry.target);
  }, { rootMargin: "1200px" });
  async function load(place) {
    near.unobserve(place);
    const response = await fetch(place.dataset.more, { headers: { Accept: "text/html" } });
    if (!response.ok || !place.isConnected) return;
    const box = document.createElement("template");
    box.innerHTML = await response.text();
    place.replaceWith(box.content);
    watchMore();
  }
  function watchMore() {
    for (const place of document.querySelectorAll("[data-more]")) near.observe(place);
  }
  watchMore();
  function detailsKey(item, i) {
    const step = item.closest("[id^=s]");
    return step ? step.id + [...step.querySelectorAll("details")].indexOf(item) : "d" + i;
  }

  for (const form of document.querySelectorAll("form[data-live]")) {
    let timer = 0;
    const search = () => {
      const params = new URLSearchParams();
      for (const [name, value] of new FormData(form)) if (value) params.append(name, value);
      if ("static" in document.body.dataset) {
        const words = (params.get("q") || "").toLowerCase().split(/\s+/);
        for (const row of document.querySelectorAll("[data-row]"))
          row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
        return;
      }
      const url = form.getAttribute("action") + (params.size ? "?" + params : "");
      history.replaceState(null, "", url);
      // A form within what it updates would lose the cursor: then only what it searches is replaced.
      update(url, form.closest("#live") ? ["live-steps"] : parts);
    };
    form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(search, 120); });
    form.addEventListener("submit", (event) => { event.preventDefault(); search(); });
  }

  // Where no server sorts, a click on a heading does; a table of several pages stays as it is.
  if ("static" in document.body.dataset && !document.querySelector(".pager")) {
    for (const heading of document.querySelectorAll("table.list th")) {
      const rows = () => [...heading.closest("table").tBodies[0].querySelectorAll("[data-row]")];
      if (rows().length < 2 || !heading.textContent.trim()) continue;
      const value = (row) => (row.cells[heading.cellIndex]?.textContent || "").trim();
      const number = (text) => parseFloat(text.replace(/[^0-9.-]/g, " ").trim());
      const sort = () => {
        const up = heading.getAttribute("aria-sort") === "descending";
        for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
        heading.setAttribute("aria-sort", up ? "ascending" : "descending");
        const numeric = heading.classList.contains("num");
        const compare = (a, b) => numeric ? (number(a) || 0) - (number(b) || 0) : a.localeCompare(b, "en", { numeric: true });
        const sorted = rows().sort((a, b) => compare(value(a), value(b)) * (up ? 1 : -1));
        sorted.forEach((row) => row.parentElement.append(row));
      };
      heading.tabIndex = 0;
      heading.setAttribute("role", "columnheader");
      heading.classList.add("sortable");
      heading.addEventListener("click", sort);
      heading.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
    }
  }

  // A browser has few connections to one server, so only a visible page listens.
  const stream = document.body.dataset.events;
  let source = null;
  function listen() {
    if (document.hidden) {
      source?.close();
      source = null;
    } else if (!source) {
      source = new EventSource(stream);
      source.addEventListener("changed", () => update(location.href));
    }
  }
  if (stream) {
    listen();
    document.addEventListener("visibilitychange", () => { if (!document.hidden) update(location.href); listen(); });
    addEventListener("pagehide", () => source?.close());
  }

  let marked = -1;
  function mark(next) {
    const rows = [...document.querySelectorAll("[data-row]")];
    rows.forEach((row) => row.classList.remove("marked"));
    marked = Math.max(-1, Math.min(next, rows.length - 1));
    if (marked < 0) return;
    rows[marked].classList.add("marked");
    rows[marked].scrollIntoView({ block: "nearest" });
  }
  function step(by) {
    const steps = [...document.querySelectorAll(".step")];
    if (!steps.length) return;
    const now = steps.findIndex((item) => item.getBoundingClientRect().bottom > 60);
    const next = steps[Math.max(0, Math.min((now < 0 ? steps.length : now) + by, steps.length - 1))];
    next.scrollIntoView({ block: "start" });
  }
  const moves = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest("input:not([type=checkbox]), select, textarea");
    if (typing) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const key = event.key;
    const rows = document.querySelector("[data-row]");
    if (key in moves && (rows || key.length === 1)) {
      rows ? mark(marked + moves[key]) : step(moves[key]);
    } else if (key === "Enter" && marked >= 0 && event.target === document.body) {
      document.querySelectorAll("[data-row]")[marked].querySelector("a")?.click();
    } else if (key === "u" && document.body.dataset.up) {
      location.href = document.body.dataset.up;
    } else {
      const target = document.querySelector(`[data-key="${CSS.escape(key)}"]`);
      if (!target) return;
      target.matches("input") ? (target.focus(), target.select()) : target.click();
    }
    event.preventDefault();
  });
})();
