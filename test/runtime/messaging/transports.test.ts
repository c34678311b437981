import { transportContract } from "../../contract/index.js";
import { inProcessHarness, networkHarness } from "../../support/transport-harness.js";

for (const scheme of ["http", "https", "unix", "pipe", "grpc", "grpcs"] as const) {
  transportContract(networkHarness(scheme));
}
transportContract(inProcessHarness);
