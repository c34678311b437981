import type { StartedServer } from "./start-postgres.js";

const none: StartedServer = { url: "", stop: async () => {} };

/**
 * SQL Server: the one ONCEBOX_TEST_MSSQL_URL names, or a container where Docker runs, or none,
 * and then the SQL Server suites report themselves as skipped.
 */
export async function startSqlServer(): Promise<StartedServer> {
  const given = process.env.ONCEBOX_TEST_MSSQL_URL;
  if (given) return { url: given, stop: async () => {} };

  if (!(await dockerRuns())) return none;
  const { GenericContainer, Wait } = await import("testcontainers");
  const password = "Oncebox-Test-1";
  const container = await new GenericContainer("mcr.microsoft.com/mssql/server:2022-latest")
    .withEnvironment({ ACCEPT_EULA: "Y", MSSQL_SA_PASSWORD: password })
    .withExposedPorts(1433)
    .withWaitStrategy(Wait.forLogMessage("Recovery is complete"))
    .start();
  const address = `${container.getHost()}:${container.getMappedPort(1433)}`;
  return {
    url: `mssql://sa:${password}@${address}/master?encrypt=true&trustServerCertificate=true`,
    async stop() {
      await container.stop();
    },
  };
}

/** Whether there is a container runtime that tests can start servers in. */
export async function dockerRuns(): Promise<boolean> {
  const { getContainerRuntimeClient } = await import("testcontainers");
  return getContainerRuntimeClient().then(
    () => true,
    () => false,
  );
}
