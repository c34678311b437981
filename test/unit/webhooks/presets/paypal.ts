import { crc32 } from "node:zlib";
import { paypal } from "../../../../src/webhooks/presets/paypal.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { unsigned } from "../../../support/presets/preset-sample.js";
import { rsaCertificate, rsaPrivateKey, rsaSignature } from "../../../support/presets/rsa-key.js";

const event = {
  id: "WH-0G2756385H040842W-5Y612302CV158622M",
  event_type: "PAYMENT.SALE.COMPLETED",
  resource: { id: "4EU7004268015634R" },
};

describePreset("paypal", paypal, {
  secret: "4JH86294D6297924G",
  otherSecret: "5JH86294D6297924G",
  sign: ({ body }) => {
    const id = "dfb3be50-fd74-11e4-8bf3-77339302725b";
    const time = "2015-05-18T15:45:13Z";
    return {
      headers: {
        "paypal-transmission-id": id,
        "paypal-transmission-time": time,
        "paypal-transmission-sig": rsaSignature(`${id}|${time}|4JH86294D6297924G|${crc32(body)}`),
        "paypal-cert-url": "https://api.sandbox.paypal.com/v1/notifications/certs/CERT-360caa42-fca2a594",
        "paypal-auth-algo": "SHA256withRSA",
      },
    };
  },
  event: { body: JSON.stringify(event) },
  otherEvent: { body: JSON.stringify({ ...event, id: "WH-0G2756385H040842W-5Y612302CV158622N" }) },
  // the CRC-32 of the body proves too little
  stored: [{ messageId: unsigned(event.id), topic: "PAYMENT.SALE.COMPLETED" }],
  route: { fetchText: async () => rsaCertificate },
  ours: {
    privateKey: rsaPrivateKey,
    headers: { "paypal-transmission-id": "1", "paypal-transmission-time": "2" },
  },
});
