import { app } from "@azure/functions";
import { azureHttp } from "../../../../src/adapters/azure/middleware.js";

const cookies = [
  "session=a%20b; Path=/; HttpOnly; Secure; SameSite=Lax",
  "theme=dark; Max-Age=60; Domain=shop.example; SameSite=None",
  "seen=1; Expires=Wed, 21 Oct 2099 07:28:00 GMT",
  "gone=; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
];

app.http("cookies", {
  methods: ["GET"],
  handler: azureHttp((request) => {
    const count = Number(new URL(request.url).searchParams.get("count"));
    const headers = new Headers({ "x-other": "kept" });
    for (const cookie of cookies.slice(0, count)) headers.append("set-cookie", cookie);
    return new Response("ok", { headers });
  }),
});
