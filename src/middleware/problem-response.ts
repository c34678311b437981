/** A response in the format of RFC 9457. */
export const problemResponse = (status: number, title: string): Response =>
  Response.json({ title, status }, { status, headers: { "content-type": "application/problem+json" } });
