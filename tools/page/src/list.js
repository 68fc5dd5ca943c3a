// A virtual list: rows of one height, made as they come into sight.

/** Rows of a scrolled element, of which only those in sight exist. */
export class VirtualList {
  #count = 0;

  /**
   * @param {HTMLElement} frame the element that scrolls
   * @param {HTMLElement} space the element that holds the rows, as high as all of them
   * @param {number} height of a row, and of the heads above the rows, in pixels
   * @param {(index: number) => HTMLElement} make
   */
  constructor(frame, space, height, make) {
    this.frame = frame;
    this.space = space;
    this.height = height;
    this.make = make;
    frame.addEventListener("scroll", () => this.paint(), { passive: true });
    new ResizeObserver(() => this.paint()).observe(frame);
  }

  /**
   * Shows so many rows, from the first.
   * @param {number} count
   */
  show(count) {
    this.#count = count;
    this.space.style.height = `${count * this.height}px`;
    this.frame.scrollTop = 0;
    this.paint();
  }

  /** Makes the rows that are in sight, and no others. */
  paint() {
    const { scrollTop, clientHeight } = this.frame;
    const first = Math.max(0, Math.floor(scrollTop / this.height) - 5);
    const last = Math.min(this.#count, Math.ceil((scrollTop + clientHeight) / this.height) + 5);
    const rows = [];
    for (let index = first; index < last; index += 1) rows.push(this.make(index));
    this.space.replaceChildren(...rows);
  }

  /**
   * Scrolls as little as brings a row into sight.
   * @param {number} index
   */
  reveal(index) {
    const top = index * this.height;
    const below = top + 2 * this.height; // the heads stay above the rows
    if (top < this.frame.scrollTop) this.frame.scrollTop = top;
    else if (below > this.frame.scrollTop + this.frame.clientHeight)
      this.frame.scrollTop = below - this.frame.clientHeight;
  }

  /**
   * Scrolls a row into the middle.
   * @param {number} index
   */
  center(index) {
    this.frame.scrollTop = Math.max(0, index * this.height - this.frame.clientHeight / 2);
  }
}
