// Scales from values to pixels, and the ticks of their axes.

/**
 * A scale from values to pixels.
 * @param {number} low
 * @param {number} high
 * @param {number} from
 * @param {number} to
 */
export const scale = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);

/**
 * Ticks at round values.
 * @param {number} low
 * @param {number} high
 * @param {number} [count]
 * @returns {[number[], number]} the values, and how many digits they need
 */
export function ticks(low, high, count = 5) {
  const step = 10 ** Math.floor(Math.log10((high - low || 1) / count));
  const size = [1, 2, 5, 10].map((factor) => factor * step).find((width) => (high - low) / width <= count) ?? step;
  const values = [];
  const first = Math.ceil(low / size);
  // Counted, as adding a step that is tiny beside the value would leave it as it is.
  for (let index = 0; index <= count && (first + index) * size <= high + size / 1e6; index += 1)
    values.push((first + index) * size);
  return [values, Math.max(0, -Math.floor(Math.log10(size) + 1e-9))];
}
