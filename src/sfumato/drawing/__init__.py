"""Drawing: from codes and random words to the columns of a released table, and the manifest that describes them."""
