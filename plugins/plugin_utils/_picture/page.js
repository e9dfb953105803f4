// SPDX-License-Identifier: GPL-3.0-or-later
"use strict";
(() => {
  const by = (id) => document.getElementById(id);
  const controls = by("controls");
  const cards = by("cards");
  const hosts = [...cards.querySelectorAll(".card")];
  const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
  // What is typed may be any part of what a machine's entry shows, or of its hypervisor's name.
  const machines = hosts.flatMap((card) =>
    [...card.querySelectorAll(".machine")].map((item) => ({
      item,
      card,
      list: item.parentNode,
      name: item.querySelector(".name").textContent,
      address: (item.querySelector(".address") || { textContent: "\uffff" }).textContent,
      tags: [...item.querySelectorAll(".tag")].map((tag) => tag.textContent),
      text: (item.textContent + " " + card.dataset.name).replace(/\s+/g, " ").toLowerCase(),
    }))
  );
  for (const { item, card } of machines) {
    const where = document.createElement("span");
    where.className = "where";
    where.textContent = `on ${card.dataset.name}`;
    item.querySelector(".state").after(" ", where);
  }
  const lists = hosts.map((card) => card.querySelector("details.list")).filter(Boolean);
  // Which machines were unfolded before there was anything to filter by; null while there is nothing.
  let unfolded = null;

  const byName = (one, other) => collator.compare(one.name, other.name);
  const most = (key) => (one, other) => other.item.dataset[key] - one.item.dataset[key] || byName(one, other);
  const machineOrders = {
    name: byName,
    state: (one, other) => collator.compare(one.item.dataset.state, other.item.dataset.state) || byName(one, other),
    memory: most("memory"),
    vcpus: most("vcpus"),
    address: (one, other) => collator.compare(one.address, other.address) || byName(one, other),
  };

  function arrange() {
    const flat = by("view").value === "flat";
    for (const machine of [...machines].sort(machineOrders[by("order").value])) {
      (flat ? by("flat") : machine.list).append(machine.item);
    }
    by("flat").hidden = !flat;
    cards.hidden = by("hosts-label").hidden = by("fold").hidden = flat;
  }

  function sortHosts() {
    const key = by("hosts-order").value;
    const order = (one, other) =>
      (key === "name" ? 0 : other.dataset[key] - one.dataset[key]) ||
      collator.compare(one.dataset.name, other.dataset.name);
    for (const card of [...hosts].sort(order)) {
      cards.append(card);
    }
  }

  function filter() {
    const words = by("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const state = by("state").value;
    const tag = by("tag").value;
    const attention = by("attention").checked;
    const filtering = Boolean(words.length || state || tag || attention);
    const shown = new Map(hosts.map((card) => [card, 0]));
    for (const machine of machines) {
      const fits =
        words.every((word) => machine.text.includes(word)) &&
        (!state || machine.item.dataset.state === state) &&
        (!tag || machine.tags.includes(tag)) &&
        (!attention || "attention" in machine.item.dataset);
      machine.item.hidden = !fits;
      if (fits) {
        shown.set(machine.card, shown.get(machine.card) + 1);
      }
    }
    let found = 0;
    for (const [card, number] of shown) {
      // A hypervisor without machines is found by its own name.
      const named = words.length && !state && !tag && !attention &&
        words.every((word) => card.dataset.name.toLowerCase().includes(word));
      card.hidden = filtering && !number && !named;
      found += number;
    }
    if (filtering) {
      unfolded ??= lists.map((list) => list.open);
      lists.forEach((list) => { list.open = true; });
    } else if (unfolded) {
      lists.forEach((list, index) => { list.open = unfolded[index]; });
      unfolded = null;
    }
    by("nothing").hidden = !filtering || found > 0 || (by("view").value === "cards" && hosts.some((card) => !card.hidden));
    by("found").textContent = filtering
      ? `${found} of ${machines.length} machines`
      : `${machines.length} machine${machines.length === 1 ? "" : "s"}`;
    nameFold();
  }

  function nameFold() {
    by("fold").textContent = lists.some((list) => !list.open) ? "Show machines" : "Hide machines";
  }

  by("fold").addEventListener("click", () => {
    const open = lists.some((list) => !list.open);
    lists.forEach((list) => { list.open = open; });
    nameFold();
  });
  lists.forEach((list) => list.addEventListener("toggle", nameFold));
  controls.addEventListener("submit", (event) => event.preventDefault());
  controls.addEventListener("reset", () => setTimeout(() => { arrange(); sortHosts(); filter(); }));
  by("search").addEventListener("input", filter);
  for (const id of ["state", "tag", "attention"]) {
    by(id).addEventListener("change", filter);
  }
  for (const id of ["order", "view"]) {
    by(id).addEventListener("change", () => { arrange(); filter(); });
  }
  by("hosts-order").addEventListener("change", sortHosts);
  controls.hidden = !machines.length;

  // On paper nothing can be unfolded.
  let before = [];
  window.addEventListener("beforeprint", () => {
    before = lists.map((list) => list.open);
    lists.forEach((list) => { list.open = true; });
  });
  window.addEventListener("afterprint", () => lists.forEach((list, index) => { list.open = before[index]; }));

  // A page in a file may have no storage; the choice then lasts as long as the page.
  const themes = ["system", "light", "dark"];
  const button = by("theme");
  let theme = "system";
  try {
    theme = localStorage.getItem("brine-virt-theme") || theme;
  } catch { /* as above */ }
  function setTheme(value) {
    theme = themes.includes(value) ? value : "system";
    button.textContent = `Theme: ${theme}`;
    if (theme === "system") {
      delete document.documentElement.dataset.theme;
    } else {
      document.documentElement.dataset.theme = theme;
    }
    try {
      localStorage.setItem("brine-virt-theme", theme);
    } catch { /* as above */ }
  }
  button.addEventListener("click", () => setTheme(themes[(themes.indexOf(theme) + 1) % themes.length]));
  button.hidden = false;
  setTheme(theme);

  const made = new Date(document.querySelector("time").dateTime);
  function showAge() {
    const minutes = Math.floor((Date.now() - made) / 60000);
    const [number, word] =
      minutes < 60 ? [minutes, "minute"] : minutes < 2880 ? [Math.floor(minutes / 60), "hour"] : [Math.floor(minutes / 1440), "day"];
    by("age").textContent = minutes > 0 ? ` (${number} ${word}${number === 1 ? "" : "s"} ago)` : "";
  }
  showAge();
  setInterval(showAge, 30000);
  nameFold();
})();
