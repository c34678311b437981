// A stale file in dist would be published, so every build starts with an empty folder.
import { rmSync } from "node:fs";

rmSync(new URL("../dist", import.meta.url), { recursive: true, force: true });
