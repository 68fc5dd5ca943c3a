import js from "@eslint/js";

export default [
  js.configs.recommended,
  {
    languageOptions: { sourceType: "module", ecmaVersion: "latest" },
    rules: {
      "no-undef": "off", // tsc knows what is defined
      "no-control-regex": "off", // control characters are what the page makes visible
      eqeqeq: "error",
      "no-var": "error",
      "prefer-const": "error",
    },
  },
];
