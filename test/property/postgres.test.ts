import { inject } from "vitest";
import { postgresHarness } from "../support/postgres-harness.js";
import { queueProperty } from "./queue-property.js";

queueProperty(postgresHarness(inject("postgresUrl")), 25);
