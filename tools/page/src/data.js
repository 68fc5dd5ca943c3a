// The data of samples: blocks that are loaded when they are needed, from the page itself or from the viewer.

/** @import { Report, Sample } from "./types.d.ts" */

import { byId } from "./dom.js";

// What can be said of a sample, as bits of a number.
export const WRONG = 1;
export const UNREADABLE = 2;
export const TRUNCATED = 4;
export const FAILED = 8;
export const PROMPT_TRUNCATED = 16;

const MOST_BLOCKS = 60;

/**
 * The JSON value of an embedded block: base64 of zlib-compressed UTF-8.
 * @param {string} id
 */
export async function inflate(id) {
  const bytes = Uint8Array.from(atob(byId(id).textContent ?? ""), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/** The samples of all forms, block by block; blocks that were used last stay in memory. */
export class SampleSource {
  /** @type {Map<number, Promise<Sample[]>>} */
  #blocks = new Map();

  /**
   * @param {Report} report
   * @param {(number: number) => Promise<Sample[]>} load
   * @param {(sha256: string) => Promise<string | null>} picture
   */
  constructor(report, load, picture = async () => null) {
    this.report = report;
    this.load = load;
    this.picture = picture;
  }

  /** @param {number} number */
  async #block(number) {
    const known = this.#blocks.get(number);
    if (known) return known;
    const oldest = this.#blocks.keys().next().value;
    if (this.#blocks.size > MOST_BLOCKS && oldest !== undefined) this.#blocks.delete(oldest);
    const block = this.load(number);
    block.catch(() => this.#blocks.delete(number)); // so that it can be asked for again
    this.#blocks.set(number, block);
    return block;
  }

  /**
   * The sample of a form (by its number) at a position in its list of documents.
   * @param {number} form
   * @param {number} position
   */
  async sample(form, position) {
    const { first_block, block_size } = this.report.forms[form];
    const rows = await this.#block(first_block + Math.floor(position / block_size));
    return rows[position % block_size];
  }

  /**
   * Calls `found` with the positions of a form's samples whose texts contain the words, block after block.
   * @param {number} form
   * @param {string} words
   * @param {(position: number) => void} found
   * @param {() => boolean} stopped
   */
  async search(form, words, found, stopped) {
    const { first_block, block_size, docs } = this.report.forms[form];
    for (let at = 0; at < docs.length; at += block_size) {
      if (stopped()) return;
      const rows = await this.load(first_block + at / block_size);
      rows.forEach((row, offset) => {
        if (searchable(row).includes(words)) found(at + offset);
      });
    }
  }
}

/** @param {Sample} row */
const searchable = (row) =>
  [row.prompt, ...(row.choices ?? []), ...(row.raw ?? []), String(row.extracted ?? ""), String(row.target ?? "")]
    .join("\n")
    .toLowerCase();
