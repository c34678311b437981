import { register } from "node:module";

// tsx gives every closure its name when it is made, which takes longer than many a closure runs. A package's code is
// compiled without that, and so is what is measured here.
register("./typescript-hooks.mjs", import.meta.url);
