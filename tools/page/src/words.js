// The words in which two texts differ.

/** @import { Range } from "./types.d.ts" */

/**
 * The ranges of the words of each text that the other does not have in the same order; of lines where there are too
 * many words to align them in a moment. What lies before the positions is compared with itself alone.
 * @param {string} left
 * @param {string} right
 * @param {number} [leftStart]
 * @param {number} [rightStart]
 * @returns {[Range[], Range[]]}
 */
export function differingWords(left, right, leftStart = 0, rightStart = 0) {
  const shifted = (ranges, by) => ranges.map(([from, to]) => /** @type {Range} */ ([from + by, to + by]));
  const before = alignedDifferences(left.slice(0, leftStart), right.slice(0, rightStart));
  const after = alignedDifferences(left.slice(leftStart), right.slice(rightStart));
  return [
    [...before[0], ...shifted(after[0], leftStart)],
    [...before[1], ...shifted(after[1], rightStart)],
  ];
}

const WORDS = /\s+|[^\s]+/g;

const LINES = /[^\n]*\n|[^\n]+/g;

const MOST_PAIRS = 9e6;

/**
 * @param {string} left
 * @param {string} right
 * @param {RegExp} [unit]
 * @returns {[Range[], Range[]]}
 */
function alignedDifferences(left, right, unit = WORDS) {
  /** @type {(text: string) => [string, number][]} */
  const parts = (text) => [...text.matchAll(unit)].map((match) => [match[0], match.index]);
  let a = parts(left);
  let b = parts(right);
  let start = 0;
  while (start < a.length && start < b.length && a[start][0] === b[start][0]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end][0] === b[b.length - 1 - end][0])
    end++;
  a = a.slice(start, a.length - end);
  b = b.slice(start, b.length - end);
  if (a.length * b.length > MOST_PAIRS) {
    if (unit === WORDS) return alignedDifferences(left, right, LINES);
    /** @type {(rest: [string, number][]) => Range[]} */
    const whole = (rest) => [[rest[0][1], rest[rest.length - 1][1] + rest[rest.length - 1][0].length]];
    return [whole(a), whole(b)];
  }
  const width = b.length + 1;
  const longest = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      longest[i * width + j] =
        a[i][0] === b[j][0]
          ? longest[(i + 1) * width + j + 1] + 1
          : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
  /** @type {[Range[], Range[]]} */
  const marks = [[], []];
  const mark = (which, [word, at]) => {
    const last = marks[which].at(-1);
    if (last && last[1] === at) last[1] = at + word.length;
    else marks[which].push([at, at + word.length]);
  };
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i][0] === b[j][0]) (i++, j++);
    else if (j >= b.length || (i < a.length && longest[(i + 1) * width + j] >= longest[i * width + j + 1]))
      mark(0, a[i++]);
    else mark(1, b[j++]);
  }
  return marks;
}
