// SPDX-License-Identifier: Apache-2.0
"use strict";

/** An element with text in it; text stays text, whoever wrote it. */
function element(name, text = "", className = "") {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function facts(rows) {
  const list = element("dl");
  for (const [name, value] of rows) {
    if (value === "" || value === null || value === undefined) continue;
    list.append(element("dt", name), element("dd", String(value)));
  }
  return list;
}

function wayTo(branch, byKey) {
  const way = [];
  for (let one = branch; one; one = byKey.get(one.under)) way.unshift(one);
  return way;
}

function links(branches, here, choose) {
  const list = element("ol");
  for (const one of branches) {
    const item = element("li", "", one === here ? "here" : "");
    const button = element("button", `${one.change}${one.ratio_words ? ` (${one.ratio_words})` : ""}`);
    button.type = "button";
    button.addEventListener("click", () => choose(one.key));
    item.append(button);
    list.append(item);
  }
  return list;
}

function titled(title, ...content) {
  return [element("h3", title), ...content];
}

function outcome(branch, tree) {
  if (branch.code) return element("p", branch.outcome, "outcome failed");
  const words = [branch.outcome, branch.ratio_words].filter(Boolean).join(", ");
  const won = branch.key === tree.best ? "outcome won" : "outcome";
  return element("p", branch.key === tree.best ? `${words}: the fastest` : words, won);
}

function branchDetails(branch, tree, book, choose) {
  const parts = [element("h2", branch.change), outcome(branch, tree)];
  parts.push(facts([
    ["Proposed by", branch.proposer], ["Lane", branch.lane], ["Space", branch.space],
    ["Time", branch.secs_words], ["Untuned", branch.untuned_words],
    ["To its parent", branch.parent_words], ["In all", branch.speedup_words], ["Noise", branch.noise_words],
    ["Code", branch.code], ["Reason", branch.reason], ["Suspicious", branch.suspicious ? "yes" : ""],
    ["Tokens", branch.tokens || ""], ["Repair", branch.repair_turn ? `turn ${branch.repair_turn}` : ""],
    ["Signature", branch.signature], ["Relative", branch.relative],
    ["Toolchain", book.texts[branch.toolchain]], ["Machine", tree.machine], ["When", when(branch.at)],
    ["Run", branch.run_id], ["Round", `${branch.round_no}, place ${branch.order}`], ["Seed", branch.seed],
    ["State", branch.state], ["Started from", branch.parent || "the untuned function"], ["Key", branch.key],
  ]));
  const known = (keys) => keys.map((key) => book.branches.get(key)).filter(Boolean);
  const below = tree.branches.filter((one) => one.under === branch.key);
  parts.push(...titled("The way here", links(wayTo(branch, book.branches), branch, choose)));
  if (branch.mends.length) parts.push(...titled("Repairs", links(known(branch.mends), null, choose)));
  if (branch.source) parts.push(...titled("Carried over from", ...carried(branch, known, choose)));
  if (below.length) parts.push(...titled("Tried from here", links(below, null, choose)));
  if (branch.proposal !== null) parts.push(...titled("Proposal", element("pre", book.texts[branch.proposal])));
  return parts;
}

function carried(branch, known, choose) {
  const found = known([branch.source]);
  return [found.length ? links(found, null, choose) : element("p", `${branch.source}, not on this page`)];
}

function when(seconds) {
  return new Date(seconds * 1000).toISOString().replace("T", " ").slice(0, 19) + " UTC";
}

function treeDetails(tree) {
  return [
    element("h2", tree.title), element("p", tree.summary, "outcome"),
    facts([
      ["Task", `${tree.task} ${tree.task_key}`], ["Kind", tree.what], ["Machine", tree.machine],
      ["Simulated", tree.simulated ? "yes" : ""], ["Untuned", tree.untuned_words],
      ["Shown", tree.branches.length], ["Left out", tree.num_hidden || ""],
    ]),
    element("p", "Choose a point of the graph to see what was changed and what came of it."),
  ];
}
