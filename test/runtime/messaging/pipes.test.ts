import { transportContract } from "../../contract/transport-contract.js";
import { networkHarness } from "../../support/transport-harness.js";

// A file of its own, because Windows can run it: named pipes there, Unix sockets elsewhere.
transportContract(networkHarness("pipe"));
