// SPDX-License-Identifier: Apache-2.0
"use strict";

const byId = (id) => document.getElementById(id);
const book = JSON.parse(byId("memory").textContent);
book.branches = new Map(book.trees.flatMap((tree) => tree.branches.map((one) => [one.key, one])));
book.treeOf = new Map(book.trees.flatMap((tree) => tree.branches.map((one) => [one.key, tree])));
const cy = drawGraph(byId("graph"));
const READABLE = 0.55;
const READS_WELL = 0.8;
const page = { trees: [], matches: [], at: -1, chosen: null };

function option(value, text) {
  const made = element("option", text);
  made.value = value;
  return made;
}

function distinct(values) {
  return [...new Set(values)];
}

function fillMachines() {
  const machines = distinct(book.trees.map((tree) => tree.machine));
  byId("machine").replaceChildren(option("", "every machine"), ...machines.map((one) => option(one, one)));
}

function onMachine() {
  const machine = byId("machine").value;
  return book.trees.filter((tree) => !machine || tree.machine === machine);
}

function fillTasks() {
  const before = byId("task").value;
  const tasks = new Map();
  for (const tree of onMachine()) {
    const known = tasks.get(tree.task_key);
    tasks.set(tree.task_key, { tree, count: (known?.count || 0) + tree.branches.length + tree.num_hidden });
  }
  byId("task").replaceChildren(...[...tasks].map(([key, { tree, count }]) =>
    option(key, `${tree.task}: ${tree.what} (${count}) ${key.slice(0, 8)}`)));
  if (tasks.has(before)) byId("task").value = before;
}

function showTrees() {
  page.trees = onMachine().filter((tree) => tree.task_key === byId("task").value);
  cy.elements().remove();
  cy.add(elements(page.trees));
  letGo();
  say(page.trees);
  search();
  overview();
}

function say(trees) {
  const hidden = trees.reduce((sum, tree) => sum + tree.num_hidden, 0);
  const words = trees.length === 1 ? [trees[0].summary] : trees.map((tree) => `${tree.machine}: ${tree.summary}`);
  if (!trees.length) words.push("Nothing is on record yet; `kope tune` records what it measures");
  if (hidden) words.push(`${hidden} of least value are left out of this page`);
  byId("status").replaceChildren(element("span", words.join("; ")));
}

/** All of it, or where that would be too small to read, its beginning. */
function overview() {
  cy.resize();
  const top = byId("status").offsetHeight + 50;
  const columns = Math.max(0, ...page.trees.flatMap((tree) => tree.branches.map((one) => one.column)));
  const rows = page.trees.reduce((sum, tree) => sum + tree.num_rows + 3, 0);
  const whole = Math.min((cy.width() - 40) / (FIRST_COLUMN + columns * COLUMN), (cy.height() - top) / (rows * ROW), 1);
  cy.viewport({ zoom: whole < READABLE ? READS_WELL : whole, pan: { x: 40, y: top } });
  coarsen(cy);
}

function choose(key, { move = true } = {}) {
  const tree = book.treeOf.get(key);
  if (!cy.getElementById(key).length && tree) {
    byId("machine").value = "";
    fillTasks();
    byId("task").value = tree.task_key;
    showTrees();
  }
  const node = cy.getElementById(key);
  if (!node.length) return;
  cy.nodes(".chosen").removeClass("chosen");
  node.addClass("chosen");
  page.chosen = key;
  const branch = node.data("branch");
  fillDetails(branch ? branchDetails(branch, tree, book, choose) : treeDetails(node.data("tree")));
  if (move) bringIn(node);
}

function fillDetails(parts) {
  const close = element("button", "×");
  close.type = "button";
  close.id = "close";
  close.setAttribute("aria-label", "Close the details");
  close.addEventListener("click", () => { letGo(); byId("graph").focus(); });
  byId("details").classList.remove("empty");
  byId("details").replaceChildren(close, ...parts);
  byId("details").scrollTop = 0;
  cy.resize();
}

function bringIn(node) {
  if (cy.zoom() < READABLE) cy.zoom(READS_WELL);
  const box = node.renderedBoundingBox();
  const isIn = box.x1 > 10 && box.y1 > 50 && box.x2 < cy.width() - 10 && box.y2 < cy.height() - 20;
  if (isIn) return;
  const at = node.renderedPosition();
  cy.panBy({ x: Math.min(cy.width() * 0.3, 260) - at.x, y: cy.height() * 0.4 - at.y });
}

function letGo() {
  cy.nodes(".chosen").removeClass("chosen");
  page.chosen = null;
  const first = page.trees[0];
  byId("details").replaceChildren(...(first ? treeDetails(first) : []));
  byId("details").classList.add("empty");
  cy.resize();
}

function textOf(branch) {
  branch.text ??= [
    branch.change, branch.outcome, branch.reason, branch.code, branch.proposer, branch.lane, branch.space, branch.state,
    branch.signature, branch.relative, branch.run_id, branch.key, book.texts[branch.toolchain], branch.proposal === null ? "" : book.texts[branch.proposal],
  ].join("\n").toLowerCase();
  return branch.text;
}

function holds(branch, words) {
  return words.every((word) => textOf(branch).includes(word));
}

function search() {
  const words = byId("words").value.toLowerCase().split(/\s+/).filter(Boolean);
  page.at = -1;
  cy.batch(() => {
    cy.elements().removeClass("dimmed match");
    page.matches = [];
    if (!words.length) return;
    page.matches = page.trees.flatMap((tree) => tree.branches.filter((one) => holds(one, words)).map((one) => one.key));
    cy.elements().addClass("dimmed");
    for (const key of page.matches) cy.getElementById(key).removeClass("dimmed").addClass("match");
  });
  const elsewhere = words.length ? book.trees.filter((tree) => !page.trees.includes(tree) && tree.branches.some((one) => holds(one, words))) : [];
  sayMatches(words.length > 0, elsewhere);
}

function sayMatches(isSearch, elsewhere) {
  const total = page.trees.reduce((sum, tree) => sum + tree.branches.length, 0);
  const where = page.at < 0 ? page.matches.length : `${page.at + 1} / ${page.matches.length}`;
  const parts = isSearch ? [element("span", `${where} of ${total} `)] : [];
  if (elsewhere.length) {
    const next = element("button", `in ${elsewhere.length} more`);
    next.type = "button";
    next.addEventListener("click", () => {
      const machine = byId("machine").value;
      if (machine && machine !== elsewhere[0].machine) byId("machine").value = "";
      fillTasks();
      byId("task").value = elsewhere[0].task_key;
      showTrees();
      nextMatch(1);
    });
    parts.push(next);
  }
  byId("matches").replaceChildren(...parts);
}

function nextMatch(step) {
  if (!page.matches.length) return;
  page.at = (page.at + step + page.matches.length) % page.matches.length;
  choose(page.matches[page.at]);
  byId("matches").firstChild.textContent = `${page.at + 1} / ${page.matches.length} `;
}

function around(key, direction) {
  const node = cy.getElementById(key);
  const up = node.incomers("edge.step").sources().first();
  if (direction === "ArrowLeft") return up;
  if (direction === "ArrowRight") return inOrder(node)[0];
  const row = up.length ? inOrder(up) : cy.nodes(".root").toArray();
  const at = row.findIndex((one) => one.id() === key);
  return row[at + (direction === "ArrowDown" ? 1 : -1)];
}

function inOrder(node) {
  return node.outgoers("edge.step").targets("[branch]").toArray();
}

function walk(direction) {
  const found = page.chosen ? around(page.chosen, direction) : cy.nodes(".root").first();
  if (found && found.length) choose(found.id());
}

function best() {
  const tree = page.trees.find((one) => one.best);
  if (tree) choose(tree.best);
}

const KEYS = {
  "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8),
  f: () => cy.fit(undefined, 50), b: best, "/": () => byId("words").focus(), Escape: () => letGo(),
};

function zoom(factor) {
  cy.zoom({ level: cy.zoom() * factor, renderedPosition: { x: cy.width() / 2, y: cy.height() / 2 } });
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isTyping = event.target.closest?.("input, select, textarea");
  if (isTyping && event.key === "Escape") byId("graph").focus();
  if (isTyping) return;
  const isWalk = event.key.startsWith("Arrow") && event.target === byId("graph");
  const act = isWalk ? () => walk(event.key) : KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

function listen() {
  byId("machine").addEventListener("change", () => { fillTasks(); showTrees(); });
  byId("task").addEventListener("change", showTrees);
  byId("words").addEventListener("input", search);
  byId("search").addEventListener("submit", (event) => { event.preventDefault(); nextMatch(1); });
  byId("zoom-in").addEventListener("click", () => zoom(1.25));
  byId("zoom-out").addEventListener("click", () => zoom(0.8));
  byId("fit").addEventListener("click", () => cy.fit(undefined, 50));
  byId("winner").addEventListener("click", best);
  document.addEventListener("keydown", onKey);
  cy.on("tap", "node", (event) => { byId("graph").focus(); choose(event.target.id(), { move: false }); });
  cy.on("tap", (event) => { if (event.target === cy) letGo(); });
}

fillMachines();
fillTasks();
listen();
showTrees();
