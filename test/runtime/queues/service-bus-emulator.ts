import { GenericContainer, Network, Wait } from "testcontainers";
import type { ServiceBus } from "./service-bus-suite.js";

const password = "Oncebox-Test-1";

const config = JSON.stringify({
  UserConfig: {
    Namespaces: [
      {
        Name: "sbemulatorns",
        Queues: [
          {
            Name: "orders",
            Properties: { LockDuration: "PT1M", MaxDeliveryCount: 10, RequiresDuplicateDetection: false },
          },
        ],
        Topics: [],
      },
    ],
    Logging: { Type: "File" },
  },
});

/** Microsoft's emulator, which keeps its messages in a SQL Server beside it. */
export async function startServiceBusEmulator(): Promise<ServiceBus> {
  const network = await new Network().start();
  const store = await new GenericContainer("mcr.microsoft.com/mssql/server:2022-latest")
    .withNetwork(network)
    .withNetworkAliases("store")
    .withEnvironment({ ACCEPT_EULA: "Y", MSSQL_SA_PASSWORD: password })
    .withWaitStrategy(Wait.forLogMessage("Recovery is complete"))
    .start();
  const emulator = await new GenericContainer("mcr.microsoft.com/azure-messaging/servicebus-emulator:1.1.2")
    .withNetwork(network)
    .withEnvironment({ ACCEPT_EULA: "Y", SQL_SERVER: "store", MSSQL_SA_PASSWORD: password })
    .withCopyContentToContainer([{ content: config, target: "/ServiceBus_Emulator/ConfigFiles/Config.json" }])
    .withExposedPorts(5672)
    .withWaitStrategy(Wait.forLogMessage("Emulator Service is Successfully Up!"))
    .withStartupTimeout(240_000)
    .start();
  const address = `${emulator.getHost()}:${emulator.getMappedPort(5672)}`;
  return {
    connectionString: `Endpoint=sb://${address};SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;`,
    async waiting(client) {
      const receiver = client.createReceiver("orders");
      const { length } = await receiver.peekMessages(100);
      await receiver.close();
      return length;
    },
    async stop() {
      await emulator.stop();
      await store.stop();
      await network.stop();
    },
  };
}
