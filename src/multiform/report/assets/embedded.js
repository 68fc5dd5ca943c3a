// A report in one file: all data are in the page.

startTheme();
inflate("data").then((report) => {
  buildPage(report, new SampleSource(report, (number) => inflate(`samples-${number}`)));
  document.documentElement.dataset.ready = "yes";
});
