// Elements as values, and the least change that makes a page show them. Every text is set as text, never as
// markup.

const SVG = "http://www.w3.org/2000/svg";

export const h = (tag, attributes, ...children) => ({ tag, attributes: attributes || {}, children: children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false) });

function make(value, parent) {
  if (typeof value !== "object") return document.createTextNode(String(value));
  const svg = value.tag === "svg" || (parent.namespaceURI === SVG && parent.tagName !== "foreignObject");
  const node = svg ? document.createElementNS(SVG, value.tag) : document.createElement(value.tag);
  patch(node, value);
  return node;
}

export function patch(node, value) {
  for (const name of node.getAttributeNames()) if (value.attributes[name] === undefined) node.removeAttribute(name);
  for (const [name, text] of Object.entries(value.attributes)) {
    if (name === "style" || text === undefined) continue;
    if (node.getAttribute(name) !== String(text)) node.setAttribute(name, text);
  }
  const style = value.attributes.style || {};
  for (const [name, text] of Object.entries(style)) if (node.style.getPropertyValue(name) !== String(text)) node.style.setProperty(name, text);
  value.children.forEach((child, index) => {
    const old = node.childNodes[index];
    if (!old) node.append(make(child, node));
    else if (typeof child !== "object") {
      if (old.nodeType !== Node.TEXT_NODE) old.replaceWith(make(child, node));
      else if (old.data !== String(child)) old.data = String(child);
    } else if (old.nodeType === Node.ELEMENT_NODE && old.tagName.toLowerCase() === child.tag.toLowerCase()) patch(old, child);
    else old.replaceWith(make(child, node));
  });
  while (node.childNodes.length > value.children.length) node.lastChild.remove();
}

export function show(id, ...children) {
  const node = document.getElementById(id);
  const attributes = {};
  for (const name of node.getAttributeNames()) attributes[name] = node.getAttribute(name);
  patch(node, h(node.tagName.toLowerCase(), attributes, ...children));
}

// A table that is a list of labelled figures where there is no room for columns. `head`: pairs of text and
// class.
export function table(head, rows, attributes) {
  const cells = (row) => row.children.map((cell, i) => ({ ...cell, attributes: { "data-label": head[i] && head[i][0], ...cell.attributes } }));
  return h("table", { class: "stacks" }, h("thead", {}, h("tr", {}, head.map(([text, kind]) => h("th", kind ? { class: kind } : {}, text)))),
    h("tbody", attributes || {}, rows.map((row) => ({ ...row, children: cells(row) }))));
}

// Good, warning, bad or not known: by shape as well as by colour.
export const dot = (mood, attributes) => h("span", { class: "dot " + mood, ...attributes });

// Addresses beside this page's own, whole: behind a proxy it may stand below a path, and what it was opened
// with may hold a password, from which no question may be made.
export const at = (path) => location.origin + location.pathname.replace(/\/[^/]*$/, "") + path;

// Whether another version answers than the one that this page came from: then its scripts are of the version
// before. Behind one name there may be several, so a page is not given up in its first ten seconds.
let version = null;
export function outdated(answers) {
  version ??= answers;
  return answers !== version && performance.now() > 10000;
}

export function themed() {
  const theme = new URLSearchParams(location.search).get("theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
}
