import { sqliteHarness } from "../support/sqlite-harness.js";
import { middlewareContract } from "./middleware-contract.js";

middlewareContract(sqliteHarness("file"));
middlewareContract(sqliteHarness("memory"));
