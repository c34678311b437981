/** Whether there is a container runtime that tests can start servers in. */
export async function dockerRuns(): Promise<boolean> {
  const { getContainerRuntimeClient } = await import("testcontainers");
  return getContainerRuntimeClient().then(
    () => true,
    () => false,
  );
}
