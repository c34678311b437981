/** Writes src/admin/page-files.ts from src/admin/page. A test compares them. */
import { writeFileSync } from "node:fs";
import { renderedPage } from "./rendered-page.js";

writeFileSync(new URL("../src/admin/page-files.ts", import.meta.url), await renderedPage());
