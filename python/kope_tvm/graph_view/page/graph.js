// SPDX-License-Identifier: Apache-2.0
"use strict";

const ROOT = "untuned ";
const ROW = 34;
const COLUMN = 310;
const FIRST_COLUMN = 110;
const TINY_BELOW = 0.3;

function colours() {
  const css = getComputedStyle(document.documentElement);
  const names = ["page", "card", "ink", "soft", "edge", "accent", "slow", "even", "fast", "win", "fail", "odd", "repairs", "transfers"];
  return Object.fromEntries(names.map((name) => [name, css.getPropertyValue(`--${name}`).trim()]));
}

function mixed(from, to, share) {
  const parts = [1, 3, 5].map((at) => {
    const [low, high] = [from, to].map((hex) => parseInt(hex.slice(at, at + 2), 16));
    return Math.round(low + (high - low) * Math.min(Math.max(share, 0), 1));
  });
  return `rgb(${parts.join(",")})`;
}

/** Slower than untuned to the fastest known of the tree, by log ratio. */
function tint(speedup, fastest, shades) {
  if (!speedup) return shades.even;
  if (speedup < 1) return mixed(shades.even, shades.slow, -Math.log2(speedup) / 3 + 0.3);
  return mixed(shades.even, shades.fast, Math.log(speedup) / Math.log(Math.max(fastest, 1.1)));
}

function spot(place, down) {
  return { x: FIRST_COLUMN + (place.column - 1) * COLUMN, y: down + place.row * ROW };
}

function branchNode(branch, tree, down) {
  const kinds = ["plan", "rewrite"].filter((lane) => lane === branch.lane);
  if (branch.code) kinds.push("failed");
  if (branch.suspicious) kinds.push("suspicious");
  if (branch.is_winning) kinds.push("winning");
  if (branch.key === tree.best) kinds.push("best");
  const label = `${branch.code || branch.speedup_words}  ${branch.change}`.trim();
  return {
    group: "nodes", classes: kinds.join(" "),
    data: { id: branch.key, label, branch, tree },
    position: spot(branch, down),
  };
}

function line(id, source, target, kind) {
  return { group: "edges", classes: kind, data: { id, source, target } };
}

/** Nodes and edges of some trees, one below the other. */
function elements(trees) {
  const shown = new Set(trees.flatMap((tree) => tree.branches.map((branch) => branch.key)));
  const found = [];
  let down = 0;
  for (const tree of trees) {
    const root = ROOT + tree.id;
    found.push({
      group: "nodes", classes: "root", data: { id: root, label: tree.title, tree },
      position: { x: 0, y: down },
    });
    for (const branch of tree.branches) found.push(branchNode(branch, tree, down));
    for (const branch of tree.branches) {
      const kinds = ["step", branch.is_winning ? "winning" : branch.code ? "failed" : "", branch.is_far ? "far" : ""];
      found.push(line(`step ${branch.key}`, branch.under || root, branch.key, kinds.join(" ")));
      for (const key of branch.mends) {
        if (shown.has(key)) found.push(line(`mend ${key} ${branch.key}`, key, branch.key, "repairs"));
      }
      if (shown.has(branch.source)) {
        found.push(line(`transfer ${branch.key}`, branch.source, branch.key, "transfers"));
      }
    }
    tree.hidden.forEach((hidden, number) => {
      const id = `hidden ${tree.id} ${number}`;
      found.push({
        group: "nodes", classes: "hidden", data: { id, label: hidden.words, tree },
        position: spot(hidden, down),
      });
      found.push(line(`to ${id}`, hidden.under || root, id, hidden.is_far ? "step faint far" : "step faint"));
    });
    down += (tree.num_rows + 3) * ROW;
  }
  return found;
}

function graphStyle(shades) {
  const by = (node) => tint(node.data("branch")?.speedup, node.data("tree").fastest, shades);
  return [
    { selector: "node", style: {
      width: 18, height: 18, "background-color": by, label: "data(label)", color: shades.ink,
      "font-size": 13, "font-family": "system-ui, sans-serif", "text-halign": "right", "text-valign": "center", "text-margin-x": 6,
      "text-wrap": "ellipsis", "text-max-width": 255, "min-zoomed-font-size": 6,
      "text-background-color": shades.page, "text-background-opacity": 0.9, "text-background-padding": 2,
    } },
    { selector: "node.plan", style: { shape: "round-rectangle" } },
    { selector: "node.rewrite", style: { shape: "diamond", width: 22, height: 22 } },
    { selector: "node.failed", style: { "background-opacity": 0, "border-width": 2, "border-style": "dashed", "border-color": shades.fail, color: shades.fail } },
    { selector: "node.suspicious", style: { shape: "triangle", "background-color": shades.odd } },
    { selector: "node.winning", style: { "border-width": 3, "border-color": shades.win, "font-weight": 600 } },
    { selector: "node.best", style: { width: 26, height: 26, "border-width": 5 } },
    { selector: "node.root", style: { shape: "round-rectangle", width: 24, height: 24, "background-color": shades.soft, "font-weight": 600, "text-halign": "right", "text-valign": "top", "text-margin-x": -24, "text-margin-y": -4, "text-max-width": 900 } },
    { selector: "node.hidden", style: { shape: "round-rectangle", width: 22, height: 12, "background-opacity": 0, "border-width": 1, "border-style": "dotted", "border-color": shades.soft, color: shades.soft } },
    { selector: "edge", style: { width: 1.5, "line-color": shades.edge, "curve-style": "round-taxi", "taxi-direction": "rightward", "taxi-turn": 24, "taxi-radius": 8 } },
    { selector: "edge.failed", style: { "line-style": "dashed", "line-color": shades.fail, "line-opacity": 0.5 } },
    { selector: "edge.faint", style: { "line-style": "dotted" } },
    { selector: "edge.winning", style: { width: 4, "line-color": shades.win, "z-index": 5 } },
    { selector: "edge.far", style: { "line-opacity": 0.2 } },
    { selector: "edge.repairs, edge.transfers", style: { "curve-style": "unbundled-bezier", "control-point-distances": 40, "control-point-weights": 0.5, width: 2, "target-arrow-shape": "triangle", "z-index": 6 } },
    { selector: "edge.repairs", style: { "line-style": "dashed", "line-color": shades.repairs, "target-arrow-color": shades.repairs } },
    { selector: "edge.transfers", style: { "line-style": "dotted", "line-color": shades.transfers, "target-arrow-color": shades.transfers } },
    { selector: "node.tiny", style: { shape: "rectangle", width: COLUMN * 0.8, height: ROW * 0.8, label: "" } },
    { selector: "node.tiny.failed", style: { "background-color": shades.fail, "background-opacity": 0.35, "border-width": 0 } },
    { selector: "edge.tiny", style: { "line-opacity": 0.15 } },
    { selector: ".dimmed", style: { opacity: 0.15 } },
    { selector: "node.match", style: { "underlay-color": shades.accent, "underlay-opacity": 0.35, "underlay-padding": 6 } },
    { selector: "node.chosen", style: { "underlay-color": shades.accent, "underlay-opacity": 0.6, "underlay-padding": 8, "text-max-width": 560, "z-index": 20 } },
  ];
}

/** Where labels are too small to read, points become cells, so that the whole reads as a map of speed. */
function coarsen(cy) {
  const isTiny = cy.zoom() < TINY_BELOW;
  if (cy.nodes().first().hasClass("tiny") !== isTiny) cy.batch(() => cy.elements().toggleClass("tiny", isTiny));
}

function drawGraph(container) {
  const cy = cytoscape({
    container, elements: [], style: graphStyle(colours()), layout: { name: "preset" },
    minZoom: 0.02, maxZoom: 3, boxSelectionEnabled: false, autounselectify: true, autoungrabify: true,
    hideEdgesOnViewport: false, textureOnViewport: true, pixelRatio: "auto",
  });
  cy.on("zoom", () => coarsen(cy));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => cy.style(graphStyle(colours())));
  return cy;
}
