import { middlewareContract } from "../../src/testing/middleware-contract.js";
import { sqliteHarness } from "../support/sqlite-harness.js";

middlewareContract(sqliteHarness("file"));
middlewareContract(sqliteHarness("memory"));
