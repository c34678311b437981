// A network between this machine and itself: what the server says arrives a millisecond later. In a process of its own,
// so that it takes no time from the process that waits. Arguments: the server's host and port. Prints its own port.
import { connect, createServer } from "node:net";

const [host, port] = process.argv.slice(2);
const delayMs = 1;

const link = createServer({ noDelay: true }, (client) => {
  const server = connect({ host, port: Number(port), noDelay: true });
  client.pipe(server);
  server.on("data", (chunk) => setTimeout(() => client.write(chunk), delayMs));
  server.on("end", () => setTimeout(() => client.end(), delayMs));
  for (const socket of [client, server])
    socket.on("error", () => {
      client.destroy();
      server.destroy();
    });
});
link.listen(0, "127.0.0.1", () => console.log(link.address().port));
process.on("disconnect", () => process.exit());
