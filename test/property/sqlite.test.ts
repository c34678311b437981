import { sqliteHarness } from "../support/sqlite-harness.js";
import { queueProperty } from "./queue-property.js";

queueProperty(sqliteHarness("memory"), 120);
