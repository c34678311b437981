export default function Page() {
  return <p>The shop is open.</p>;
}
