// Where the report's data come from: compressed blocks in the page itself, inflated when they are needed.

const WRONG = 1, UNREADABLE = 2, TRUNCATED = 4, FAILED = 8, PROMPT_TRUNCATED = 16;

/** The JSON value of an embedded block: base64 of zlib-compressed UTF-8. */
async function inflate(id) {
  const encoded = document.getElementById(id).textContent;
  const bytes = Uint8Array.from(atob(encoded), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/** The samples of all forms, block by block; blocks that were used last stay in memory. */
class SampleSource {
  constructor(report, load) {
    this.report = report;
    this.load = load;
    this.blocks = new Map();
  }

  async block(number) {
    if (!this.blocks.has(number)) {
      if (this.blocks.size > 60) this.blocks.delete(this.blocks.keys().next().value);
      const block = this.load(number);
      block.catch(() => this.blocks.delete(number)); // so that it can be asked for again
      this.blocks.set(number, block);
    }
    return this.blocks.get(number);
  }

  /** The sample of a form (by its number) at a position in its list of documents. */
  async sample(form, position) {
    const { first_block, block_size } = this.report.forms[form];
    const rows = await this.block(first_block + Math.floor(position / block_size));
    return rows[position % block_size];
  }

  /** Calls `found` with the positions of a form's samples whose texts contain the words, block after block. */
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

const searchable = (row) => [row.prompt, ...(row.choices ?? []), ...(row.raw ?? []), String(row.extracted ?? ""), String(row.target ?? "")].join("\n").toLowerCase();
