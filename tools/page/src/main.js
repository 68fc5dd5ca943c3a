// The page: a report with its data in it, or a page of the viewer, which asks its server for them.

import { showEmbedded } from "./embedded.js";
import { startTheme } from "./tabs.js";
import { showViewer } from "./viewer.js";

startTheme();
const { view } = document.documentElement.dataset;
(view ? showViewer(view) : showEmbedded()).then(() => {
  document.documentElement.dataset.ready = "yes";
});
