// The state of the page, kept in its address: the tab, the filter, the words that are sought, and the open sample.

import { element } from "./dom.js";

/** What the page's address says. Names may hold commas, so that values are decoded by those who split them. */
export const address = () =>
  new Map(
    location.hash
      .slice(1)
      .split("&")
      .filter(Boolean)
      .map((part) => [part.split("=", 1)[0], part.slice(part.indexOf("=") + 1)]),
  );

/**
 * @param {string | undefined} text
 */
export const decoded = (text) => {
  try {
    return decodeURIComponent(text ?? "");
  } catch {
    return "";
  }
};

/**
 * Writes values into the address; an empty one is taken out. `encoded` values are written as they are.
 * @param {Record<string, string>} values
 * @param {Record<string, string>} [encoded]
 */
export function keepInAddress(values, encoded = {}) {
  const state = address();
  for (const [name, value] of [
    ...Object.entries(values).map(([key, text]) => [key, text ? encodeURIComponent(text) : ""]),
    ...Object.entries(encoded),
  ])
    if (value) state.set(name, value);
    else state.delete(name);
  const link = `#${[...state].map(([name, value]) => `${name}=${value}`).join("&")}`;
  if (location.hash !== link && !(link === "#" && !location.hash)) history.replaceState(null, "", link);
}

/**
 * What the browser's storage gives or takes; null where it cannot be used.
 * @template T
 * @param {(storage: Storage) => T} use
 */
export function remembered(use) {
  try {
    return use(localStorage);
  } catch {
    return null;
  }
}

/**
 * Offers a text as a file.
 * @param {string} name
 * @param {string} text
 * @param {string} type
 */
export function download(name, text, type) {
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/**
 * A button that copies a text, and says so.
 * @param {string} text
 * @param {string} name of what is copied
 * @param {string} [label]
 */
export function copyButton(text, name, label = "copy") {
  const button = element(
    "button",
    {
      type: "button",
      class: "copy",
      "aria-label": `copy ${name}`,
      onclick: async () => {
        try {
          await navigator.clipboard.writeText(text);
          button.textContent = "copied";
        } catch {
          button.textContent = "cannot copy here";
        }
        setTimeout(() => {
          button.textContent = label;
        }, 1500);
      },
    },
    label,
  );
  return button;
}
