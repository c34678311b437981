const duplicateKey = 11_000;
const mostTries = 5;

/**
 * Two upserts of one new key at the same time: MongoDB may tell one of them that the key exists. Nothing was written by it,
 * and its repetition finds the document of the other. Only a removal in between could make it fail again.
 */
export async function retryDuplicateKey<T>(upsert: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await upsert();
    } catch (error) {
      if ((error as { code?: unknown }).code !== duplicateKey || tries === mostTries) throw error;
    }
  }
}
