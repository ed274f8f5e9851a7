"""The demo: every part of Sequitur on this machine, over the flights, from start to proof."""
