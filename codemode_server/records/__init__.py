"""The records of one configuration's principal, as the commands and the pages read and answer them."""
