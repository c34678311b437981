/** Appends the body of each request to a file, and answers with the process id. "/end" ends it. */
import { appendFileSync } from "node:fs";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { listenOn } from "../../support/loopback.js";

const [file, listen] = process.argv.slice(2) as [string, string];
const server = createServer(async (request, response) => {
  if (request.url === "/end") process.exit(3);
  appendFileSync(file, `${await text(request)}\n`);
  response.end(String(process.pid));
});
if (file === "") process.exit(1);
console.log("not the line that is waited for");
const { port } = await listenOn(server, { port: Number(listen) });
console.log(`ready ${port}`);
