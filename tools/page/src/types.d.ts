// The data of the page, as Python's multiform.report writes them.

export interface Numbers {
  value: number | null;
  low: number | null;
  high: number | null;
}
export interface Measured {
  value: number;
  low: number;
  high: number;
}
export interface Score extends Numbers {
  metric: string;
  stderr: number | null;
}
export interface Run {
  label: string;
  short: string;
  model: string;
  date: string;
  seconds: number | null;
  facts: [string, unknown][];
  config: unknown;
  environment: string | null;
  command: string | null;
  settings: string[];
  usage: string;
  notes: string[];
}
/** A measure of a form in words, with its chart. */
export interface Measure {
  words: string;
  chart: Spec;
}
export interface Form extends Score {
  run: number;
  name: string;
  key: string;
  family: string | null;
  chance: number | null;
  task: string;
  format: string | null;
  short: string;
  n: number;
  shots: unknown;
  higher: boolean;
  identity: string;
  overridden: string[];
  config: Record<string, unknown>;
  format_fields: unknown;
  others: Score[];
  docs: number[];
  scores: (number | null)[];
  flags: number[];
  picks: string[];
  lengths: number[];
  margins: (number | null)[];
  position: Measure | null;
  calibration: Measure | null;
  first_block: number;
  block_size: number;
}
export interface Population {
  number: number;
  mean: Measured;
  observed: number;
  deviation: Measured;
  predicted: Measured;
  reliability: number;
}
export interface Wordings extends Population {
  label: string;
  effect_p: number | null;
  effects: Spec | null;
  chart: Spec;
}
export interface WordingChange extends Population {
  label: string;
  name: string;
  metric: string;
  reversal: number;
}
export interface Comparison {
  task: string;
  run: number;
  metric: string;
  scoring: string;
  n: number;
  clusters: number;
  variance: Record<string, number> | null;
  compared: number;
  more: number;
  /** `p_holm` is the p value after correction for `among` comparisons of its kind. */
  spread: (Measured & { by_chance: number; p: number; p_holm: number; among: number }) | null;
  forms: { name: string; label: string; tied: boolean }[];
  wordings: Wordings[];
  all: number | null;
  some: number | null;
  none: number | null;
  flips: number | null;
  row: string | null;
  chart: Spec | null;
}
export interface Change {
  first: number;
  second: number;
  kind: "group" | "form";
  name: string;
  metric: string;
  before: number;
  after: number;
  difference: number;
  low: number | null;
  high: number | null;
  p: number | null;
  higher: boolean;
  raised: number;
  lowered: number;
}
export interface Fact {
  name: string;
  value: string;
  words: string;
  key: string;
}
/** A row of a chart's panel: columns that the panel names, and what else is known of it. */
export interface ChartRow {
  [column: string]: any;
}
export interface Axis {
  field: string;
  title: string | null;
  low: number | null;
  high: number | null;
  names: string[] | null;
}
export interface Panel {
  mark: "interval" | "cell" | "bar" | "line";
  title: string | null;
  x: Axis;
  y: Axis;
  rows: ChartRow[];
  color: string | null;
  domain: string[] | null;
  value: Axis | null;
  label: string | null;
  tick: string | null;
  lines: Record<string, number> | null;
}
/** The description of a chart, as `ChartSpec` has it. */
export interface Spec {
  name: string;
  panels: Panel[];
  text: string;
  palette: string[];
}
export interface Variations {
  axes: { name: string; words: string }[];
  rows: { format: string; short: string; values: (string | null)[] }[];
}
export interface Report {
  title: string;
  runs: Run[];
  forms: Form[];
  /** The names of groups, without their formats. */
  groups: string[];
  tasks: Comparison[];
  wording_changes: WordingChange[];
  variations: Variations;
  heads: Record<string, Record<number, string>>;
  overview: {
    attention: string[];
    sentence: string;
    facts: Fact[];
    charts: (Spec | null)[];
    /** Of the last run. */
    flips: Spec | null;
    changes: Change[];
    changes_chart: Spec | null;
  };
}
/** A turn of a chat. */
export interface Turn {
  role: string;
  content: string;
}
export interface Picture {
  kind: string;
  size: string;
  sha256: string;
}
export interface Sample {
  prompt: string;
  turns: Turn[] | null;
  media: Picture[] | null;
  choices: string[] | null;
  labels: string[] | null;
  loglikelihoods: number[] | null;
  tokens: (number | null)[] | null;
  seconds: (number | null)[] | null;
  gold: unknown;
  picked: number | null;
  raw: string[] | null;
  thoughts: (string | null)[] | null;
  costs: string[] | null;
  extracted: unknown;
  target: string | null;
  scores: Record<string, unknown>;
  question_start: number;
  failure: string | null;
  endings: string[] | null;
  steps: { step: string; text: string }[] | null;
}
/** Where a document is in a form: the form's number, and the position in its list of documents. */
export interface Place {
  form: number;
  position: number;
}
export interface Doc {
  key: string;
  task: string;
  doc: number;
  head: string;
  places: Place[];
}
export type Range = [number, number];
/** A score in the list of runs: of a group, or of a form in none. */
export interface RunScore extends Numbers {
  form: string;
  metric: string;
  n: number;
  higher: boolean;
}
/** A results file in the viewer's list. */
export interface RunLine {
  key: string;
  file: string;
  problem?: string;
  model: string;
  arguments: string;
  settings: string[];
  date: string;
  seconds: number | null;
  status: string;
  harness: string;
  forms: number;
  scores: RunScore[];
}
/** A run that is not complete. */
export interface RunState {
  file: string;
  problem?: string;
  status: string;
  model: string;
  arguments: string;
  started: string | null;
  updated: string;
  forms: Record<string, { scored: number; documents: number }>;
  requests: { needed?: number; cached?: number; answered?: number; failed?: number };
  left: number | null;
  scores: RunScore[];
  link: string | null;
  command: string | null;
}
export interface RunList {
  folder: string;
  complete: RunLine[];
  going_on: RunState[];
}
export interface BoardCell extends Numbers {
  task: string;
  metric: string;
  n: number;
  higher: boolean;
  run: string;
  tied?: boolean;
}
export interface Board {
  models: string[];
  forms: string[];
  cells: (BoardCell | null)[][];
  columns: string[];
  ranking: (Measured & { model: string; tier: number })[];
  unranked: { model: string; lacks: string[] }[];
  reversals: {
    ahead: string;
    behind: string;
    form: string;
    other: string;
    lead: number;
    deficit: number;
    clear: boolean;
  }[];
  tau: { form: string; other: string; models: number; tau: number | null }[];
  summary: string | null;
  history: Spec[];
}
