/** Writes src/admin/page/page-files.ts from the other files there. A test compares them. */
import { writeFileSync } from "node:fs";
import { renderedPage } from "./rendered-page.js";

writeFileSync(new URL("../src/admin/page/page-files.ts", import.meta.url), await renderedPage());
