// The frame of the page: its tabs, its keys and its theme.

/** @import { SampleBrowser } from "./samples.js" */

import { byId, element } from "./dom.js";
import { address, decoded, keepInAddress, remembered } from "./state.js";

/**
 * What the tabs and keys act on: the browser of samples, once there is one.
 * @type {{ browser: SampleBrowser | null }}
 */
export const page = { browser: null };

/**
 * Makes the tabs: each has a name, a title and its sections.
 * @param {[string, string, Node[]][]} entries
 */
export function buildTabs(entries) {
  const nav = byId("sections");
  const tabs = entries.map(([id, title]) =>
    element(
      "button",
      { type: "button", role: "tab", id: `tab-${id}`, "data-tab": id, "aria-controls": id, onclick: () => showTab(id) },
      title,
    ),
  );
  nav.setAttribute("role", "tablist");
  nav.replaceChildren(...tabs);
  nav.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const at = tabs.findIndex((tab) => tab === document.activeElement);
    if (!step || at < 0) return;
    const next = tabs[(at + step + tabs.length) % tabs.length];
    showTab(String(next.dataset.tab));
    next.focus();
  });
  byId("report").append(
    ...entries.map(([id, , sections]) =>
      element(
        "div",
        { role: "tabpanel", id, "aria-labelledby": `tab-${id}`, hidden: true, tabindex: "-1" },
        ...sections,
      ),
    ),
  );
}

/** Shows the tab that the page's address names, now and whenever the address changes. */
export function followAddress() {
  const restore = () => {
    const state = address();
    showTab(decoded(state.get("tab")) || (state.has("sample") ? "samples" : "overview"), false);
  };
  restore();
  addEventListener("hashchange", restore);
}

/**
 * Shows one of the tabs, and writes it into the page's address.
 * @param {string} name
 * @param {boolean} [keep]
 */
function showTab(name, keep = true) {
  const tabs = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[role=tab]")]);
  const known = tabs.some((tab) => tab.dataset.tab === name) ? name : "overview";
  for (const tab of tabs) {
    const shown = tab.dataset.tab === known;
    tab.setAttribute("aria-selected", String(shown));
    tab.tabIndex = shown ? 0 : -1;
    byId(String(tab.dataset.tab)).hidden = !shown;
  }
  if (keep) {
    keepInAddress({ tab: known === "overview" ? "" : known });
    scrollTo(0, 0);
  }
  if (known === "samples") page.browser?.repaint();
}

/**
 * The samples that a filter leaves, in their tab.
 * @param {string} filter
 * @param {boolean} [opened] whether the first is opened, under the forms that the filter names
 */
export function showSamples(filter, opened = false) {
  showTab("samples");
  page.browser?.setFilter(filter);
  if (opened) page.browser?.openFirst();
}

/**
 * One document, in the tab of samples.
 * @param {string} key
 * @param {number} [form] the number of the form under which it is opened
 */
export function showDocument(key, form) {
  showTab("samples");
  page.browser?.openKey(key, form);
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  const focused = /** @type {HTMLElement} */ (event.target);
  if (event.key === "Escape") {
    focused.blur();
    return;
  }
  if (focused.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  const { browser } = page;
  const move = (step) => {
    if (!browser) return;
    showTab("samples");
    browser.move(step);
  };
  const search = () => {
    if (!browser) return;
    showTab("samples");
    browser.search.focus();
  };
  /** @type {Record<string, () => void>} */
  const actions = {
    j: () => move(1),
    k: () => move(-1),
    w: () => browser?.toggleWhitespace(),
    r: () => browser?.toggleRendered(),
    "/": search,
    "?": showHelp,
    t: switchTheme,
  };
  if (!actions[event.key]) return;
  event.preventDefault();
  actions[event.key]();
}

const showHelp = () => /** @type {HTMLDialogElement} */ (byId("help")).showModal();

function switchTheme() {
  const root = document.documentElement;
  const theme = root.dataset.theme === "dark" ? "light" : "dark";
  root.dataset.theme = theme;
  remembered((storage) => storage.setItem("theme", theme));
}

/** Sets the theme that the reader chose before, or prefers, and listens to the keys of the page. */
export function startTheme() {
  const preferred = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = remembered((storage) => storage.getItem("theme")) ?? preferred;
  byId("theme").addEventListener("click", switchTheme);
  byId("keys").addEventListener("click", showHelp);
  document.addEventListener("keydown", onKey);
}
