// Numbers as words.

/** @import { Numbers } from "./types.d.ts" */

/**
 * A number with so many digits after the point, and a minus that is as wide as a plus.
 * @param {number | null | undefined} value
 * @param {number} [digits]
 */
export const fixed = (value, digits = 3) =>
  value === null || value === undefined ? "" : value.toFixed(digits).replace("-", "−");

/**
 * A number with its thousands apart.
 * @param {number} value
 */
export const grouped = (value) => String(value).replace(/\B(?=(\d{3})+(?!\d))/g, ",");

/**
 * A number of things: `1 document`, `2 documents`.
 * @param {number} number
 * @param {string} thing
 */
export const counted = (number, thing) => `${grouped(number)} ${thing}${number === 1 ? "" : "s"}`;

/**
 * A difference, with its sign.
 * @param {number | null} value
 * @param {number} [digits]
 */
export const signed = (value, digits = 3) =>
  value === null ? "" : (value >= 0 ? "+" : "−") + Math.abs(value).toFixed(digits);

/**
 * Seconds in the largest units that matter.
 * @param {unknown} seconds
 */
export function duration(seconds) {
  const s = Number(seconds);
  if (!Number.isFinite(s)) return "";
  if (s < 90) return s < 0.05 ? "under 0.1 s" : `${s.toFixed(s < 10 ? 1 : 0)} s`;
  const minutes = Math.round(s / 60);
  return minutes < 90 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/**
 * A p value in words; nothing where there is none.
 * @param {number | null} p
 */
export const pText = (p) =>
  p === null ? "" : p < 0.001 ? "p < 0.001" : `p = ${p < 0.1 ? String(Number(p.toPrecision(2))) : p.toFixed(2)}`;

/**
 * @param {Numbers} estimate
 * @param {(value: number | null) => string} [format]
 */
export const bounds = (estimate, format = fixed) => `${format(estimate.low)} to ${format(estimate.high)}`;

/**
 * @param {number} p
 */
export const isFinding = (p) => p < 0.05;

/**
 * A share in percent, to a tenth, so that shares of one whole add up.
 * @param {number} value
 */
export const percent = (value) => `${(100 * value).toFixed(1)} %`;
