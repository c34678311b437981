import { adyen } from "../../../../src/webhooks/presets/adyen.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";

interface Item {
  readonly pspReference: string;
  readonly originalReference?: string;
  readonly merchantAccountCode: string;
  readonly merchantReference: string;
  readonly amount: { readonly currency: string; readonly value: number };
  readonly eventCode: string;
  readonly success: string;
  readonly additionalData?: object;
}
interface Body {
  readonly notificationItems: readonly { readonly NotificationRequestItem: Item }[];
}

const published: Item = {
  pspReference: "pspReference",
  originalReference: "originalReference",
  merchantAccountCode: "merchantAccount",
  merchantReference: "reference",
  amount: { currency: "EUR", value: 1000 },
  eventCode: "REPORT_AVAILABLE",
  success: "true",
};
const authorised: Item = {
  pspReference: "7914073381342284",
  merchantAccountCode: "TestMerchant",
  merchantReference: "TestPayment-1407325143704",
  amount: { currency: "EUR", value: 1000 },
  eventCode: "AUTHORISATION",
  success: "true",
};
const captured: Item = {
  ...authorised,
  pspReference: "8835511210681324",
  originalReference: authorised.pspReference,
  eventCode: "CAPTURE",
};
const refunded: Item = { ...captured, pspReference: "8835511210681325", eventCode: "REFUND" };
/** An empty text is signed as one that is absent. */
const report: Item = {
  ...authorised,
  originalReference: "",
  pspReference: "settlement.csv",
  merchantReference: "",
  eventCode: "REPORT_AVAILABLE",
};

const bodyOf = (...items: readonly Item[]): string =>
  JSON.stringify({
    live: "false",
    notificationItems: items.map((NotificationRequestItem) => ({ NotificationRequestItem })),
  });

function signed(item: Item, key: string): Item {
  const fields = [
    item.pspReference,
    item.originalReference,
    item.merchantAccountCode,
    item.merchantReference,
    item.amount.value,
    item.amount.currency,
    item.eventCode,
    item.success,
  ];
  const hmacSignature = hmac(Buffer.from(key, "hex"), fields.join(":"), "base64");
  return { ...item, additionalData: { hmacSignature } };
}

const storedOf = ({ pspReference, eventCode, success, merchantAccountCode }: Item) => ({
  messageId: `${pspReference}/${eventCode}/${success}`,
  topic: eventCode,
  tenant: merchantAccountCode,
});

describePreset("adyen", adyen, {
  secret: "DFB1EB5485895CFA84146406857104ABB4CBCABDC8AAF103A624C8F6A3EAAB00",
  otherSecret: "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056",
  sign: ({ body }, { secret }) => {
    const items = (JSON.parse(body) as Body).notificationItems;
    return { body: bodyOf(...items.map((one) => signed(one.NotificationRequestItem, secret))) };
  },
  event: { body: bodyOf(authorised, captured, report) },
  otherEvent: { body: bodyOf({ ...authorised, success: "false" }) },
  stored: [storedOf(authorised), storedOf(captured), storedOf(report)],
  cutAgain: {
    batches: [{ body: bodyOf(captured, refunded) }, { body: bodyOf(authorised) }],
    stored: [storedOf(authorised), storedOf(captured), storedOf(report), storedOf(refunded)],
  },
  tamper: (sent) => ({ ...sent, body: sent.body.replaceAll('"value":1000', '"value":9000') }),
  answer: { text: "[accepted]" },
  examples: [
    {
      title: "adyen-node-api-library, hmacValidator.spec.ts",
      secret: "DFB1EB5485895CFA84146406857104ABB4CBCABDC8AAF103A624C8F6A3EAAB00",
      body: bodyOf({
        ...published,
        additionalData: { hmacSignature: "ZNBPtI+oDyyRrLyD1XirkKnQgIAlFc07Vj27TeHsDRE=" },
      }),
      stored: { messageId: "pspReference/REPORT_AVAILABLE/true", tenant: "merchantAccount" },
    },
  ],
});
