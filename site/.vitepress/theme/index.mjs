// The fonts of the reader's own machine: nothing is fetched, and nothing is shipped.
import theme from "vitepress/theme-without-fonts";
import "./style.css";

export default theme;
